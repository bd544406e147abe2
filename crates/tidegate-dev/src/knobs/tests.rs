use super::*;

#[test]
fn empty_json_is_the_default() {
    assert_eq!(serde_json::from_str::<Knobs>("{}").unwrap(), Knobs::default());
}

#[test]
fn knobs_survive_json() {
    let knobs = Knobs {
        latency: Delay::UniformMs(1.0, 2.0),
        slow: Some(Slow { fraction: 0.1, factor: 3.0, extra_ms: 5.0 }),
        bandwidth: Bandwidth::per_connection(1000),
        faults: vec![
            FaultRule::error("PutObject", 500, "InternalError").times(1),
            FaultRule::lose_answer("*").probability(0.5).part(3),
            FaultRule::new("GetObject", FaultAction::ResetResponse { after_bytes: 10 }),
            FaultRule::new("GetObject", FaultAction::OtherRange { shift: -10 }),
            FaultRule::new("GetObject", FaultAction::IgnoreRange),
        ],
        ..Knobs::default()
    };
    let json = serde_json::to_string(&knobs).unwrap();
    assert_eq!(serde_json::from_str::<Knobs>(&json).unwrap(), knobs);
}

#[test]
fn a_misspelt_knob_is_refused() {
    assert!(serde_json::from_str::<Knobs>(r#"{"latencies": {}}"#).is_err());
}
